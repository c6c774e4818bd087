-- Removes a unit that has no result (a delivered callback).
-- ARGV  unit, epoch
-- Answers 0 if it was not there, 1 if it was, 2 if it was the last one.
if not wanted(ARGV[1], tonumber(ARGV[2])) then return 0 end
redis.call('HDEL', WORK, ARGV[1])
return 2 - redis.call('EXISTS', WORK)
