-- Adds requests whose bodies are in one object to the queue.
-- KEYS  1 queue, 2 sequence, 3 segments, 4 breaker, 5 wake channel; then for each request its record
--       and its idempotency key (the record again where there is none)
-- ARGV  1 now ms, 2 ttl ms, 3 replica, 4 object with the bodies, 5 failures that open the breaker,
--       6 '1' if this replica forms no batches itself; then for each request eight:
--       id, team, file name, priority (0 low … 2 high), offset, length, '1' if it has a key, maximum queue depth
-- Answers for each request {'ok', depth} | {'known', id} | {'full', depth} | {'open', until ms}
local now, ttl, owner, segment = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local depth = redis.call('ZCARD', KEYS[1])
local was_empty = depth == 0
local breaker = redis.call('HMGET', KEYS[4], 'failures', 'until')
local open_until = 0
if tonumber(breaker[1] or 0) >= tonumber(ARGV[5]) and tonumber(breaker[2] or 0) > now then
  open_until = tonumber(breaker[2])
end
local answers, taken, places = {}, 0, {}
local last = redis.call('INCRBY', KEYS[2], (#ARGV - 6) / 8)
local first = last - (#ARGV - 6) / 8
local k = 6
for a = 7, #ARGV, 8 do
  local id, record, key = ARGV[a], KEYS[k], KEYS[k + 1]
  k = k + 2
  local keyed = ARGV[a + 6] == '1'
  local known = keyed and redis.call('GET', key)
  if redis.call('HGET', record, 'st') then known = id end -- this call was repeated after a lost connection
  if known then
    answers[#answers + 1] = {known == id and 'ok' or 'known', known == id and depth or known}
    if known == id then taken = taken + 1 end
  elseif open_until > 0 then
    answers[#answers + 1] = {'open', open_until}
  elseif depth >= tonumber(ARGV[a + 7]) then
    answers[#answers + 1] = {'full', depth}
  else
    local score = (2 - tonumber(ARGV[a + 3])) * 4398046511104 + first + (k - 6) / 2
    redis.call('HSET', record, 'st', 'q', 'tm', ARGV[a + 1], 'fn', ARGV[a + 2], 'sc', string.format('%.0f', score),
      'sg', segment, 'of', ARGV[a + 4], 'ln', ARGV[a + 5], 'at', now, 'hd', owner, 'ky', ARGV[a + 6], 'mi', 0, 'sn', 0)
    redis.call('PEXPIRE', record, ttl)
    if keyed then redis.call('SET', key, id, 'PX', ttl) end
    places[#places + 1], places[#places + 2] = score, id
    depth, taken = depth + 1, taken + 1
    answers[#answers + 1] = {'ok', depth}
  end
end
if #places > 0 then redis.call('ZADD', KEYS[1], unpack(places)) end
if taken > 0 then
  redis.call('HSET', KEYS[3], segment, taken)
  if was_empty and ARGV[6] == '1' then redis.call('PUBLISH', KEYS[5], 'work') end
end
return answers
