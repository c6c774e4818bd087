-- Restores the archived record of a vault document's conversion.
-- ARGV  ttl ms, then field, value …
-- Answers 1, or 0 if the record exists.
if redis.call('EXISTS', JOB) == 1 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', JOB, ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', JOB, ARGV[1])
return 1
