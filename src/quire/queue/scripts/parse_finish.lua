-- Writes down what became of requests of a batch. Whatever has already ended stays as it is.
-- KEYS  1 queue, 2 batches, 3 slots, 4 segments, 5 expiry, 6 stats, 7 the batch's set, 8 wake channel;
--       then each request's record
-- ARGV  1 now ms, 2 ttl ms, 3 batch id, 4 replica, 5 '1' if the batch is over, 6 object with the results ('' if none);
--       then for each request seven: id, what, a, b, position, size of the batch as sent, seconds
--       what: done (a offset, b length) | error (a JSON) | again (charged) | back (not charged) | drop (caller left)
-- Answers the objects whose bodies nobody needs any more.
local now, ttl, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local unneeded, ended = {}, {}
local function let_go(segment)
  if segment and redis.call('HINCRBY', KEYS[4], segment, -1) <= 0 then
    redis.call('HDEL', KEYS[4], segment)
    unneeded[#unneeded + 1] = segment
  end
end
local k = 9
for a = 7, #ARGV, 7 do
  local id, what, record = ARGV[a], ARGV[a + 1], KEYS[k]
  k = k + 1
  local f = redis.call('HMGET', record, 'st', 'sg', 'hd', 'sc', 'b')
  if f[1] == 'q' or f[1] == 's' then
    if what == 'done' or what == 'error' then
      -- Another replica may have taken the request over meanwhile; the first result counts.
      redis.call('ZREM', KEYS[1], id)
      if what == 'done' then
        redis.call('HSET', record, 'st', 'd', 'rk', ARGV[6], 'ro', ARGV[a + 2], 'rl', ARGV[a + 3])
      else
        redis.call('HSET', record, 'st', 'e', 'er', ARGV[a + 2])
      end
      redis.call('HSET', record, 'b', ARGV[3], 'ps', ARGV[a + 4], 'bs', ARGV[a + 5], 'sec', ARGV[a + 6], 'fin', now)
      redis.call('PEXPIRE', record, ttl)
      redis.call('HINCRBY', KEYS[6], what, 1)
      let_go(f[2])
      if f[3] ~= owner then ended[#ended + 1] = id end
    elseif what == 'drop' then
      redis.call('DEL', record)
      redis.call('HINCRBY', KEYS[6], 'dropped', 1)
      let_go(f[2])
    elseif f[1] == 's' and f[5] == ARGV[3] then
      redis.call('HSET', record, 'st', 'q')
      if what == 'again' then redis.call('HINCRBY', record, 'mi', 1) end
      redis.call('ZADD', KEYS[1], f[4], id)
    end
  end
  redis.call('SREM', KEYS[7], id)
end
if ARGV[6] ~= '' then redis.call('ZADD', KEYS[5], now + ttl, ARGV[6]) end
if ARGV[5] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[3])
  redis.call('HDEL', KEYS[3], ARGV[3])
  redis.call('DEL', KEYS[7])
end
if #ended > 0 then redis.call('PUBLISH', KEYS[8], table.concat(ended, ' ')) end
return unneeded
