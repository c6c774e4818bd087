-- Records that an object of an ended job was deleted before the job itself.
-- ARGV  epoch, what ('original' | 'result'), key of the object
-- Answers 1 if recorded, 0 if the job runs again or does not exist.
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'content_ref')
if not f[1] or not terminal(f[1]) or f[2] ~= ARGV[1] then return 0 end
redis.call('HSET', JOB, ARGV[2] .. '.deleted', ARGV[3])
if ARGV[2] == 'original' and f[3] == ARGV[3] then redis.call('HDEL', JOB, 'content_ref') end
return 1
