-- Puts the record of a vault document's conversion back whose time in Redis was up.
-- ARGV  ttl ms, then field, value …
-- Answers 1, or 0 if there is one.
if redis.call('EXISTS', JOB) == 1 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', JOB, ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', JOB, ARGV[1])
return 1
