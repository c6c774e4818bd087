-- Gives a slot to a batch that was claimed ahead: the slot of another batch of the same replica, or a free one.
-- KEYS  1 batches, 2 slots, 3 the batch's set, 4 calls; records are found by their prefix
-- ARGV  1 batch id, 2 replica, 3 number of slots, 4 batch whose slot is given back ('' if none), 5 prefix of records,
--       6 now ms, 7 lease of a call ms
-- Answers 1 if it has one now, 0 if none is free, -1 if it has ended or was reclaimed.
if ARGV[4] ~= '' then redis.call('HDEL', KEYS[2], ARGV[4]) end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return -1 end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 1 end -- this call was repeated after a lost connection
if ARGV[4] == '' and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[4], tonumber(ARGV[6]) + tonumber(ARGV[7]), ARGV[1])
redis.call('PEXPIRE', KEYS[4], ARGV[7])
for _, id in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  if redis.call('EXISTS', ARGV[5] .. id) == 1 then redis.call('HINCRBY', ARGV[5] .. id, 'sn', 1) end
end
return 1
