-- Takes a lock with a TTL, or renews it for its holder.
-- KEYS  1 the lock   ARGV  1 caller, 2 ttl ms
-- Answers the holder.
local holder = redis.call('GET', KEYS[1]) or ARGV[1]
if holder == ARGV[1] then redis.call('SET', KEYS[1], holder, 'PX', ARGV[2]) end
return holder
