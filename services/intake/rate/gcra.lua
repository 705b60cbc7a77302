-- The generic cell rate algorithm. A bucket is one number: the time, in microseconds of Redis's clock, at which it will be
-- full again; a bucket that is full is not kept.
--
-- KEYS[1] the bucket. ARGV: microseconds for one token, tokens that a full bucket holds, tokens wanted.
-- Returns whether they were taken (1 or 0), and the microseconds until the bucket is full, afterwards.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local after = full + wanted * interval
-- More than a bucket holds is taken from a full one, which is in debt then.
if after - now > math.max(burst, wanted) * interval + 1 then
  return {0, string.format('%.0f', full - now)}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {1, string.format('%.0f', after - now)}
