-- Removes an ended job from the active index, unless a retry has added it again.
-- KEYS[1] jobs:active   ARGV  job id, score (ms) from which on the entry is a retry's
-- Answers 1 if removed, else 0.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) < tonumber(ARGV[2]) then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
