-- Replaces a job's sealed secrets. In one step: a record that expires meanwhile must not come back as half a record.
-- ARGV  the new ones
-- Answers 1, or 0 if there is no such job.
if redis.call('EXISTS', JOB) == 0 then return 0 end
redis.call('HSET', JOB, 'sealed', ARGV[1])
return 1
