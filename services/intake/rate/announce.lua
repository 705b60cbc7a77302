-- Says that a replica is there, and counts those that have said so within the last 15 seconds.
-- KEYS[1] the replicas. ARGV[1] this one.
local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 15)
redis.call('EXPIRE', KEYS[1], 15)
return redis.call('ZCARD', KEYS[1])
