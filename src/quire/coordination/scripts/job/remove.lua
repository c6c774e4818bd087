-- Deletes the record of a job that has ended, with all its keys.
-- KEYS  the five keys of the job, then its AI costs and its AI answers
-- Answers 1 if deleted, 0 if it runs, -1 if there is no such job.
local status = redis.call('HGET', JOB, 'status')
if not status then return -1 end
if not terminal(status) then return 0 end
redis.call('DEL', unpack(KEYS))
return 1
