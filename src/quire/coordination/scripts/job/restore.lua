-- Restores page records of a finished job, for a retry that is about to start.
-- ARGV  kept for ms, then number, packed record …
-- Answers 1, or 0 if another retry was first: its records must not be overwritten.
local status = redis.call('HGET', JOB, 'status')
if not status or not terminal(status) then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', PAGES, ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', PAGES, ARGV[1])
return 1
