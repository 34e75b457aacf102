-- Whether Redis has no room. Before the first write of a call, it then refuses even a command that changes nothing, if
-- the command may need memory. After the first write, it refuses no command.
local full
local function is_full()
  if full == nil then
    local answer = redis.pcall('ZADD', BUCKET, 'XX', 0, '')
    full = type(answer) == 'table' and string.find(error_text(answer), '^OOM') ~= nil
  end
  return full
end

-- Tests this before the first of several buckets writes, if an argument of the call has this form.
local function ask_for_room(pattern)
  if full ~= nil or FOLLOWING == 0 then return end
  for _, text in ipairs(CALL) do
    if string.find(text, pattern) then return is_full() end
  end
end
