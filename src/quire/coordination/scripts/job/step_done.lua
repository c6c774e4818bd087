-- A step of a vault document is done: its job is completed, once.
-- ARGV  unit, epoch, now ms, ttl ms, tokens in, tokens out, micro-dollars
-- Answers {1, unit …} if this counts, {0} if it came late.
local unit, epoch, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('HGET', JOB, 'status') ~= 'processing' or not wanted(unit, epoch) then
  count_late(1)
  return {0}
end
redis.call('HSET', JOB, 'tokens_in', ARGV[5], 'tokens_out', ARGV[6], 'cost_micro', ARGV[7], 'error', '')
local units = {}
finish(units, 'completed', now, tonumber(ARGV[4]))
return {1, unpack(units)}
