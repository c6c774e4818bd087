-- Records the progress of a download.
-- ARGV  epoch, token of the claim, bytes done, bytes in all (0 if not known)
-- Answers 1 if the claim is still valid, else 0.
local entry = wanted('download', tonumber(ARGV[1]))
if not entry or entry.tk ~= ARGV[2] then return 0 end
local done, total = tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('HSET', JOB, 'download.bytes', done, 'download.total', total)
local data = {bytes_done = done, progress = progress()}
if total > 0 then data.bytes_total = total end
emit('download', data)
return 1
