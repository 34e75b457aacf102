-- Reads one topic; writes nothing.
-- ARGV  2 topic
-- Reply now, then as peek.lua tells it
local reply = { NOW }
peek(ARGV[2], reply)
return reply
