-- Adds an amount to an account if the sum stays under the ceiling.
-- KEYS  the account (hash, field `cost`)
-- ARGV  micro-dollars, ceiling in micro-dollars, ttl s
-- Answers 1 if added, 0 if not; nothing changes then.
local amount = tonumber(ARGV[1])
local spent = tonumber(redis.call('HGET', KEYS[1], 'cost') or 0)
if spent + amount > tonumber(ARGV[2]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'cost', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
