-- Records which incarnations of buckets are accepted. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 the layout, 2 the accepted incarnations: a hash, bucket -> incarnation
-- ARGV  1 the layout's text; then for each bucket: its number, the incarnation that must be accepted now ('' if none), the
--       incarnation to accept
-- Reply the text of the layout, then for each bucket the accepted incarnation, so two callers get the same one
-- If the store's layout differs from the text, nothing is written.
local layout = redis.call('GET', KEYS[1])
if layout and layout ~= ARGV[1] then return { layout } end
local reply, changed = { ARGV[1] }, {}
for n = 2, #ARGV, 3 do
  local now = redis.call('HGET', KEYS[2], ARGV[n]) or ''
  if now == ARGV[n + 1] then
    now = ARGV[n + 2]
    changed[#changed + 1], changed[#changed + 2] = ARGV[n], now
  end
  reply[#reply + 1] = now
end
if not layout then redis.call('SET', KEYS[1], ARGV[1]) end
if #changed > 0 then redis.call('HSET', KEYS[2], unpack(changed)) end
return reply
