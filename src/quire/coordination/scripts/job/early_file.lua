-- Pages that wait for AI have got an early text: the vault is to file it, if the job is one of its conversions.
-- ARGV  epoch, now ms
-- Answers {0}: the unit that files is there already and may have read the pages before, ask again | {1, unit …}: the units
--   to queue.
local epoch, now, units = tonumber(ARGV[1]), tonumber(ARGV[2]), {1}
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'follow')
if f[1] ~= 'processing' or tonumber(f[2]) ~= epoch or f[3] ~= '1' then return units end
if redis.call('HEXISTS', WORK, 'vault') == 1 then return {0} end
add_unit(units, 'vault', epoch, now)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
return units
