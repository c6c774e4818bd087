-- Gives back a batch's slot, and takes one for the next batch in the same step.
-- KEYS  1 slots, 2 batches, 3 breaker
-- ARGV  1 now ms, 2 batch that is done with its slot ('' if none), 3 batch that wants one ('' if none),
--       4 replica, 5 slots there are
-- Answers {'taken'} | {'busy'} | {'lost'} (the batch is not this replica's any more) | {'wait', until ms} | {'free'}
if ARGV[2] ~= '' then redis.call('HDEL', KEYS[1], ARGV[2]) end
if ARGV[3] == '' then return {'free'} end
if redis.call('HGET', KEYS[2], ARGV[3]) ~= ARGV[4] then return {'lost'} end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then return {'taken'} end
local not_before = tonumber(redis.call('HGET', KEYS[3], 'until') or 0)
if not_before > tonumber(ARGV[1]) then return {'wait', not_before} end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return {'busy'} end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return {'taken'}
