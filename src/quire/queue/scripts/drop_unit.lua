-- Forgets a unit that needs no answer (a delivered callback).
-- ARGV  unit, epoch
if wanted(ARGV[1], tonumber(ARGV[2])) then return redis.call('HDEL', WORK, ARGV[1]) end
return 0
