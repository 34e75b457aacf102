-- Reads the texts of schedules, up to a number of bytes. Not built from shared files: it uses no keys of a bucket.
-- KEYS  1 hash: name -> text
-- ARGV  1 number of bytes; then the names
-- Reply the text of each name (nil if there is none), up to the one with which the bytes are reached
local max, bytes, reply = tonumber(ARGV[1]), 0, {}
for i = 2, #ARGV do
  local text = redis.call('HGET', KEYS[1], ARGV[i])
  reply[#reply + 1] = text
  bytes = bytes + #(text or '')
  if bytes >= max then break end
end
return reply
