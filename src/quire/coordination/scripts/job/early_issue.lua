-- Adds the unit that reads pages by OCR while they wait for AI, unless the job has it.
-- ARGV  epoch, now ms, not before ms
-- Answers 1 if it was added, 0 if not.
local epoch, now, later = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('HGET', JOB, 'status') ~= 'processing' or num('epoch') ~= epoch then return 0 end
local entry = cjson.encode({e = epoch, o = '', s = 0, f = 0, i = now, nb = later})
local added = redis.call('HSETNX', WORK, 'early', entry)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
return added
