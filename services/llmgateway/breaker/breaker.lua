-- Brings one replica's knowledge of a target's breaker and the shared one together. The breaker is a hash: 'until' is the end
-- of its pause, and there only while it is open; 'pause' is how long that pause is; 'no' counts the openings; 'probe' is the
-- token of the one request that may try the target after the pause, good until 'good'. Each other field is a slice of the
-- window, with "successes:failures" of all replicas. Times are Redis's own, in milliseconds.
--
-- KEYS[1]  the target
-- ARGV     what is to happen: 'sync', 'trip', 'probe', 'pass', 'fail' or 'return'; the token, or ''; successes and failures
--          to be added; failures that open it; window; first pause; longest pause; time to live of a token
-- Returns  1 if it is open; what is left of its pause; its pause; the number of its opening; 1 if the token is the probe's

local key, what, token = KEYS[1], ARGV[1], ARGV[2]
local successes, failures, enough = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local window, first, longest, ttl = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local open, pause, no, probe, good = nil, first, 0, '', 0
local slices, good_ones, bad_ones = {}, 0, 0
local width = math.max(1, math.floor(window / 10))
local slice = string.format('%.0f', math.floor(now / width))
local state = redis.call('HGETALL', key)
for i = 1, #state, 2 do
  local field, value = state[i], state[i + 1]
  if field == 'until' then
    open = tonumber(value)
  elseif field == 'pause' then
    pause = tonumber(value)
  elseif field == 'no' then
    no = tonumber(value)
  elseif field == 'probe' then
    probe = value
  elseif field == 'good' then
    good = tonumber(value)
  else
    slices[#slices + 1] = field
    if (tonumber(field) + 10) * width > now then
      local s, f = string.match(value, '^(%d+):(%d+)$')
      good_ones, bad_ones = good_ones + s, bad_ones + f
    else
      redis.call('HDEL', key, field)
    end
  end
end

local function forget()
  redis.call('HDEL', key, 'probe', 'good')
  if #slices > 0 then redis.call('HDEL', key, unpack(slices)) end
  probe = ''
end

local function set_open(length)
  no, pause, open = no + 1, length, now + length
  forget()
  redis.call('HSET', key, 'until', string.format('%.0f', open), 'pause', string.format('%.0f', pause), 'no', no)
end

if good <= now then probe = '' end
local mine = token ~= '' and probe == token

if not open and (successes > 0 or failures > 0) then
  good_ones, bad_ones = good_ones + successes, bad_ones + failures
  local s, f = string.match(redis.call('HGET', key, slice) or '0:0', '^(%d+):(%d+)$')
  redis.call('HSET', key, slice, string.format('%d:%d', s + successes, f + failures))
  slices[#slices + 1] = slice
end

if not open then
  -- A probe that failed and of which nothing is known here: Redis was away, or has forgotten.
  if what == 'trip' or what == 'fail' or (failures > 0 and bad_ones >= enough and bad_ones >= good_ones) then set_open(first) end
elseif what == 'probe' then
  if now >= open and probe == '' then probe, mine = token, true end
elseif what == 'pass' and mine then
  forget()
  redis.call('HDEL', key, 'until', 'pause')
  open, pause, mine = nil, first, false
elseif what == 'fail' and mine then
  set_open(math.min(pause * 2, longest))
  mine = false
elseif what == 'return' and mine then
  forget()
  mine = false
end
if mine then redis.call('HSET', key, 'probe', token, 'good', string.format('%.0f', now + ttl)) end
redis.call('PEXPIRE', key, 2 * longest + window + 3600000)

local left = 0
if open then left = math.max(0, open - now) end
return {open and 1 or 0, left, pause, no, mine and 1 or 0}
