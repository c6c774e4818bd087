-- Reads entries of a queue's streams for a consumer without waiting, by shares: each stream gives up to its share, then
-- what is left over goes to the streams in their order.
-- KEYS  the streams, the highest priority first
-- ARGV  group, consumer, id to read from ('>' for new entries, '0' for unacknowledged ones), then the share of each stream
-- Answers {{number of the stream, entry id, fields or nil}, …}
local found, left, last, is_empty = {}, 0, {}, {}
local function read(stream, count)
  if count < 1 or is_empty[stream] then return end
  local answer = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', count, 'STREAMS', KEYS[stream],
    last[stream] or ARGV[3])
  local entries = answer and answer[1][2] or {}
  for _, entry in ipairs(entries) do
    found[#found + 1] = {stream, entry[1], entry[2] or false}
    if ARGV[3] ~= '>' then last[stream] = entry[1] end
  end
  left = left - #entries
  is_empty[stream] = #entries < count
end
for stream = 1, #KEYS do
  local share = tonumber(ARGV[3 + stream])
  left = left + share
  read(stream, share)
end
for stream = 1, #KEYS do read(stream, left) end
return found
