-- The text of a finished job was put where its caller looks for it, or that was given up.
-- ARGV  epoch, what came of it (JSON)
-- Answers 1 if this was still wanted, else 0.
if not wanted('export', tonumber(ARGV[1])) then return 0 end
redis.call('HDEL', WORK, 'export')
redis.call('HSET', JOB, 'exported', ARGV[2])
return 1
