-- Removes a unit that has no result (a delivered callback).
-- ARGV  unit, epoch, token
-- Answers 0 if the claim was no longer valid, 1 if it was, 2 if it was the last unit.
-- The end of a job makes the unit of its vault document anew: the claim of the one before must not remove it.
local entry = wanted(ARGV[1], tonumber(ARGV[2]))
if not entry or entry.tk ~= ARGV[3] then return 0 end
redis.call('HDEL', WORK, ARGV[1])
return 2 - redis.call('EXISTS', WORK)
