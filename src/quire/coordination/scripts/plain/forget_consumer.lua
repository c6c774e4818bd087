-- Removes a consumer from the group of a queue's streams, where it has no unacknowledged entries: those would be lost with it.
-- KEYS  the streams   ARGV  1 group, 2 consumer
-- Answers how many streams it was removed from.
local removed = 0
for _, stream in ipairs(KEYS) do
  if #redis.call('XPENDING', stream, ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, ARGV[1], ARGV[2])
    removed = removed + 1
  end
end
return removed
