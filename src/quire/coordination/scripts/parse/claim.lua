-- Claims a batch: the first requests of the queue.
-- KEYS  1 queue, 2 batches, 3 slots, 4 breaker, 5 stats, 6 the new batch's set, 7 calls; records are found by their prefix
-- ARGV  1 now ms, 2 ttl ms, 3 batch id ('' to give back a slot only), 4 replica, 5 maximum size, 6 number of slots,
--       7 failures that open the breaker, 8 prefix of records, 9 batch whose slot is given back first ('' if none),
--       10 '1' to claim a full batch ahead of its slot (slot.lua gives it the slot), 11 lease of a call ms
-- Answers {'none'} | {'few'} | {'busy'} | {'wait', until ms}
--   | {'probe'}: the breaker is half open, and this replica has the lease to send the probe image
--   | {'batch', depth left, then ten for each request:
--      id, team, file name, object, offset, length, holder, keyed, misses, enqueued ms}
local now, batch, owner, ahead = tonumber(ARGV[1]), ARGV[3], ARGV[4], ARGV[10] == '1'
if ARGV[9] ~= '' then redis.call('HDEL', KEYS[3], ARGV[9]) end
if batch == '' then return {'none'} end
local answer = {'batch', 0}
local function read(id)
  return redis.call('HMGET', ARGV[8] .. id, 'tm', 'fn', 'sg', 'of', 'ln', 'hd', 'ky', 'mi', 'at', 'st', 'sn')
end
local function add(id, f)
  answer[#answer + 1] = id
  for j = 1, 9 do answer[#answer + 1] = f[j] or '' end
end
if redis.call('HGET', KEYS[2], batch) == owner then -- this call was repeated after a lost connection
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[6])) do add(id, read(id)) end
  answer[2] = redis.call('ZCARD', KEYS[1])
  return answer
end
local depth = redis.call('ZCARD', KEYS[1])
if depth == 0 then return {'none'} end
if ahead and depth < tonumber(ARGV[5]) then return {'few'} end
if not ahead and redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[6]) then return {'busy'} end
local breaker = redis.call('HMGET', KEYS[4], 'failures', 'until', 'probe')
local failures, not_before, threshold = tonumber(breaker[1] or 0), tonumber(breaker[2] or 0), tonumber(ARGV[7])
if not_before > now then return {'wait', not_before} end
if ahead and failures > 0 then return {'wait', now + 500} end
if failures >= threshold then
  -- Half open. The probe is an image of our own: an image of a caller could be the cause of the failures.
  if tonumber(breaker[3] or 0) > now then return {'wait', now + 500} end
  redis.call('HSET', KEYS[4], 'probe', now + tonumber(ARGV[11]))
  return {'probe'}
end
redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', now)
-- After a failure, no more calls are made at the same time than may fail until the breaker opens.
if failures > 0 and redis.call('ZCARD', KEYS[7]) >= threshold - failures then return {'wait', now + 100} end
local popped = redis.call('ZPOPMIN', KEYS[1], ARGV[5])
local ids = {}
for i = 1, #popped, 2 do
  local id = popped[i]
  local f = read(id)
  if f[10] == 'q' then
    redis.call('HSET', ARGV[8] .. id, 'st', 's', 'b', batch, 'sn', tonumber(f[11] or 0) + (ahead and 0 or 1))
    ids[#ids + 1] = id
    add(id, f)
  end
end
if #answer == 2 then return {'none'} end
redis.call('SADD', KEYS[6], unpack(ids))
redis.call('PEXPIRE', KEYS[6], ARGV[2])
redis.call('HSET', KEYS[2], batch, owner)
if not ahead then
  redis.call('HSET', KEYS[3], batch, owner)
  redis.call('ZADD', KEYS[7], now + tonumber(ARGV[11]), batch)
  redis.call('PEXPIRE', KEYS[7], ARGV[11])
end
redis.call('HINCRBY', KEYS[5], 'batches', 1)
redis.call('HSET', KEYS[5], 'last_batch', now)
answer[2] = redis.call('ZCARD', KEYS[1])
return answer
