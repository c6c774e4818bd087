-- Records the outcome of the delivery of a finished job's text.
-- ARGV  epoch, outcome (JSON)
-- Answers 1 if this was still wanted, else 0.
if not wanted('export', tonumber(ARGV[1])) then return 0 end
redis.call('HDEL', WORK, 'export')
redis.call('HSET', JOB, 'exported', ARGV[2])
return 1
