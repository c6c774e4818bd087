-- Takes a job that is over out of those to be looked after, unless a retry has put it there anew meanwhile.
-- KEYS[1] jobs:active   ARGV  job id, score (ms) from which on the entry is a retry's
-- Answers 1 if it was taken out.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) < tonumber(ARGV[2]) then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
