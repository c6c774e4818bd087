-- Which of a worker's claims are still valid.
-- ARGV  unit, epoch, token, unit, epoch, token …
-- Answers 1 or 0 for each.
local units, answer = {}, {}
for i = 1, #ARGV, 3 do units[#units + 1] = ARGV[i] end
for i, raw in ipairs(redis.call('HMGET', WORK, unpack(units))) do
  local entry = raw and cjson.decode(raw)
  local is_valid = entry and entry.e == tonumber(ARGV[3 * i - 1]) and entry.tk == ARGV[3 * i]
  answer[i] = is_valid and 1 or 0
end
return answer
