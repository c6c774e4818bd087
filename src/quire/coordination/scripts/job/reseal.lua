-- Replaces a job's sealed secrets. One script, because writing to a record that has expired would create half a record.
-- ARGV  sealed secrets
-- Answers 1, or 0 if there is no such job.
if redis.call('EXISTS', JOB) == 0 then return 0 end
redis.call('HSET', JOB, 'sealed', ARGV[1])
return 1
