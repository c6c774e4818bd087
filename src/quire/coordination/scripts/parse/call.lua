-- Asks the breaker whether a batch that has failed before may make another call.
-- KEYS  1 breaker, 2 calls
-- ARGV  1 now ms, 2 batch id, 3 failures that open the breaker, 4 lease of a call ms
-- Answers {'go'} | {'busy'} while the calls being made could open the breaker | {'wait', until ms}
local now, threshold = tonumber(ARGV[1]), tonumber(ARGV[3])
local f = redis.call('HMGET', KEYS[1], 'failures', 'until')
local failures, not_before = tonumber(f[1] or 0), tonumber(f[2] or 0)
if failures >= threshold or not_before > now then return {'wait', math.max(not_before, now)} end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREM', KEYS[2], ARGV[2])
if failures > 0 and redis.call('ZCARD', KEYS[2]) >= threshold - failures then return {'busy'} end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {'go'}
