-- Puts the unfinished requests of a batch back to their places in the queue, because its replica is dead.
-- KEYS  1 queue, 2 batches, 3 slots, 4 segments, 5 the batch's set, 6 wake channel, 7 calls; records are found by their prefix
-- ARGV  1 batch id, 2 the replica that owns it, 3 prefix of records, 4 maximum number of sends,
--       5 JSON of the error for a request that was sent more often, 6 now ms
-- Answers {how many went back, then the objects whose bodies are not needed any more}; {-1} if it is not that replica's.
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[3], ARGV[1]) end
  return {-1}
end
local answer, ended = {0}, {}
for _, id in ipairs(redis.call('SMEMBERS', KEYS[5])) do
  local record = ARGV[3] .. id
  local f = redis.call('HMGET', record, 'st', 'sc', 'sn', 'sg', 'b')
  if f[1] == 's' and f[5] == ARGV[1] then
    if tonumber(f[3]) >= tonumber(ARGV[4]) then
      redis.call('HSET', record, 'st', 'e', 'er', ARGV[5], 'fin', ARGV[6])
      ended[#ended + 1] = id
      if redis.call('HINCRBY', KEYS[4], f[4], -1) <= 0 then
        redis.call('HDEL', KEYS[4], f[4])
        answer[#answer + 1] = f[4]
      end
    else
      redis.call('HSET', record, 'st', 'q')
      redis.call('ZADD', KEYS[1], f[2], id)
      answer[1] = answer[1] + 1
    end
  end
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[5])
redis.call('ZREM', KEYS[7], ARGV[1])
if #ended > 0 then redis.call('PUBLISH', KEYS[6], table.concat(ended, ' ')) end
return answer
