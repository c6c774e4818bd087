-- Gives one unit the right to read a waiting page by OCR, so that no two units do the same work. The right ("ob" in the
-- page's record: unit and token) is void as soon as that unit's claim is: a worker that dies holds nothing back.
-- ARGV  unit, epoch, token, page number, 'take' or 'give' (back: the page could not be read)
-- Answers {'taken'} | {'given'} | {'held'}: another unit reads the page now | {'done', packed record}: it has a text, or has
--   ended | {'gone'}: the claim is no longer valid, or there is no such page
local unit, token, number = ARGV[1], ARGV[3], ARGV[4]
local entry, old = wanted(unit, tonumber(ARGV[2])), redis.call('HGET', PAGES, number)
if not entry or entry.tk ~= token or not old then return {'gone'} end
local packed = cjson.decode(old)
if terminal(packed.st) or (packed.w or 0) > 0 or packed.src then return {'done', old} end
local by = packed.ob
if ARGV[5] == 'give' then
  if by and by.tk == token then
    packed.ob = nil
    redis.call('HSET', PAGES, number, cjson.encode(packed))
  end
  return {'given'}
end
if by and by.tk ~= token then
  local other = redis.call('HGET', WORK, by.u)
  if other and cjson.decode(other).tk == by.tk then return {'held'} end
end
packed.ob = {u = unit, tk = token}
redis.call('HSET', PAGES, number, cjson.encode(packed))
return {'taken'}
