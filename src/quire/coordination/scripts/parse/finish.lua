-- Records the outcomes of requests of a batch. A request that has already ended is not changed.
-- KEYS  1 queue, 2 batches, 3 slots, 4 segments, 5 stats, 6 the batch's set, 7 wake channel, 8 calls;
--       then each request's record
-- ARGV  1 now ms, 2 ttl ms, 3 batch id, 4 replica, 5 '1' if the batch is over, 6 object with the results ('' if none);
--       then for each request seven: id, what, a, b, position, size of the batch as sent, seconds
--       what: done (a offset, b length) | error (a JSON) | again (charged) | back (not charged) | drop (caller left)
-- Answers the objects whose bodies are not needed any more.
local now, ttl, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local unneeded, ended, counts, bodies, over = {}, {}, {}, {}, {}
local function count(where, what) where[what] = (where[what] or 0) + 1 end
local k = 9
for a = 7, #ARGV, 7 do
  local id, what, record = ARGV[a], ARGV[a + 1], KEYS[k]
  k = k + 1
  local f = redis.call('HMGET', record, 'st', 'sg', 'hd', 'sc', 'b')
  if f[1] == 'q' or f[1] == 's' then
    if what == 'done' or what == 'error' then
      -- Another replica may have reclaimed the request; the first result counts.
      if f[1] == 'q' then redis.call('ZREM', KEYS[1], id) end
      local state, name, value, offset = 'd', 'rk', ARGV[6], ARGV[a + 2]
      if what == 'error' then state, name, value, offset = 'e', 'er', ARGV[a + 2], 0 end
      redis.call('HSET', record, 'st', state, name, value, 'ro', offset, 'rl', ARGV[a + 3], 'b', ARGV[3],
        'ps', ARGV[a + 4], 'bs', ARGV[a + 5], 'sec', ARGV[a + 6], 'fin', now)
      redis.call('PEXPIRE', record, ttl)
      count(counts, what)
      count(bodies, f[2])
      if f[3] ~= owner then ended[#ended + 1] = id end
    elseif what == 'drop' then
      redis.call('DEL', record)
      count(counts, 'dropped')
      count(bodies, f[2])
    elseif f[1] == 's' and f[5] == ARGV[3] then
      redis.call('HSET', record, 'st', 'q', 'sn', 0) -- the process that sent it is alive
      if what == 'again' then redis.call('HINCRBY', record, 'mi', 1) end
      redis.call('ZADD', KEYS[1], f[4], id)
    end
  end
  over[#over + 1] = id
end
for what, times in pairs(counts) do redis.call('HINCRBY', KEYS[5], what, times) end
for segment, times in pairs(bodies) do
  if redis.call('HINCRBY', KEYS[4], segment, -times) <= 0 then
    redis.call('HDEL', KEYS[4], segment)
    unneeded[#unneeded + 1] = segment
  end
end
if ARGV[5] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[3])
  redis.call('HDEL', KEYS[3], ARGV[3])
  redis.call('ZREM', KEYS[8], ARGV[3])
  redis.call('DEL', KEYS[6])
elseif #over > 0 then
  redis.call('SREM', KEYS[6], unpack(over))
end
if #ended > 0 then redis.call('PUBLISH', KEYS[7], table.concat(ended, ' ')) end
return unneeded
