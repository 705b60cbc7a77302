-- Brings one replica's permits of a limit group up to date. The group is a hash: 'open' is the time from which permits are
-- given out, 'seen' the time of the last call, and each other field a replica's "held:want:expires". Times are Redis's own,
-- in milliseconds.
--
-- KEYS[1]  the group
-- ARGV     replica; permits that it keeps in any case; permits that it wants, those included; limit of the group; time to
--          live; 1 if no other replica can hold a permit
-- Returns  permits that it holds now; its fair share if more are wanted than there are, else -1

local key, me = KEYS[1], ARGV[1]
local keep, want, limit, ttl, alone = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local open, seen = nil, 0
local wishes, held_by_others, wanted = {{id = me, want = want}}, 0, want
local state = redis.call('HGETALL', key)
for i = 1, #state, 2 do
  local field, value = state[i], state[i + 1]
  if field == 'open' then
    open = tonumber(value)
  elseif field == 'seen' then
    seen = tonumber(value)
  elseif field ~= me then
    local held, wish, expires = string.match(value, '^(%d+):(%d+):(%d+)$')
    if tonumber(expires) <= now then
      redis.call('HDEL', key, field)
    else
      held_by_others = held_by_others + held
      wanted = wanted + wish
      wishes[#wishes + 1] = {id = field, want = tonumber(wish)}
    end
  end
end

-- Nothing is known, or what is known is from before an outage: others may hold permits that stand nowhere. They have the
-- time to live to declare them.
if not open or now - seen > ttl then
  open = now
  if not alone then open = now + ttl end
  redis.call('HSET', key, 'open', string.format('%.0f', open))
end

-- Who wants less than an equal part gets it whole, and the others share the rest equally. What does not divide goes round
-- among these.
local share = -1
if wanted > limit then
  table.sort(wishes, function(a, b)
    if a.want ~= b.want then return a.want < b.want end
    return a.id < b.id
  end)
  local rest, first = limit, 1
  while first <= #wishes and wishes[first].want <= math.floor(rest / (#wishes - first + 1)) do
    rest = rest - wishes[first].want
    if wishes[first].id == me then share = want end
    first = first + 1
  end
  local sharers = #wishes - first + 1
  local turn = math.floor(now / 200)
  for i = first, #wishes do
    if wishes[i].id == me then
      share = math.floor(rest / sharers)
      if (i + turn) % sharers < rest % sharers then share = share + 1 end
    end
  end
end

local granted = keep
if now >= open then
  local most = math.min(want, limit - held_by_others)
  if share >= 0 then most = math.min(most, share) end
  granted = math.max(keep, most)
end
redis.call('HSET', key, 'seen', string.format('%.0f', now), me, string.format('%d:%d:%.0f', granted, want, now + ttl))
redis.call('PEXPIRE', key, 3600000)
return {granted, share}
