-- A lock that is had for a while, and longer by whoever has it.
-- KEYS  1 the lock   ARGV  1 who wants it, 2 ttl ms
-- Answers who has it.
local holder = redis.call('GET', KEYS[1]) or ARGV[1]
if holder == ARGV[1] then redis.call('SET', KEYS[1], holder, 'PX', ARGV[2]) end
return holder
