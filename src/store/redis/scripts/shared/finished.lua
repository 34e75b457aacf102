-- Jobs that are kept after their end; ending.lua reads their records.

-- Gathers the writes by which a finish or delete keeps the job for its retention. The new record has no body. `result` is
-- '<checksum> <JSON>', or nil. The outcome is a letter of codec/finished.rs. Returns false if the old record is damaged.
local function keep_finished(id, job, state, topic, policy, outcome, result)
  local created = creation(redis.call('HGET', POOL, id) or '')
  if not created then return false end
  local kept, text = '', ''
  if result then
    local crc
    crc, text = string.match(result, '^(%x+) (.*)$')
    kept = crc .. ':' .. #text
  end
  local reservation = job.reservation == '-' and NO_RESERVATION or job.reservation
  local numbers = string.format('%08x%04x', math.floor(created / 65536), created % 65536) .. reservation
  local fields = string.format('%s %s %s %s%d %d %s', kept, policy, topic, outcome, job.count, job.due - created,
    job.past or '')
  local header, is_long = bytes_of(numbers) .. fields, #text > MAX_INLINE_BODY
  save('record', id, '6' .. bytes_of(checksum(id .. ' ' .. header)) .. header .. '\n' .. (is_long and '' or text))
  if is_long then
    save('body', id, text)
  elseif job.rules.length > MAX_INLINE_BODY then
    erase('body', id)
  end
  erase('attempt', id)
  leave_set(state, topic, id)
  leave_expiring(topic, id, job.rules)
  join_set('finished', topic, id, NOW + parse_policy(policy).finished_retention)
  return true
end

-- The history of a job that a finish ends now: its new text, '' to remove it, nil to keep it unchanged. A job with a
-- single attempt gets no history. Its entry is computed from the second value, which is stored in the record.
local function finished_history(id, text, attempt, state, time)
  local history, started, consumer = ending_attempt(id, text, attempt, state, time)
  if not history then return nil, '' end
  if #history.entries > 0 then
    return with_entry(id, history, attempt.count, started, NOW, 'f', consumer), ''
  end
  return '', string.format('%d', started - attempt.due) .. (consumer == '!' and '' or ':' .. consumer)
end

-- Writes the history of a finished job with a single attempt. Until now, this history was computed from the record, whose
-- times are about to change. `time` is the end of the job's retention.
local function keep_entry(id, job, time)
  local wait, consumer = string.match(job.ended.past, '^(-?%d+):?(.*)$')
  wait = number(wait)
  if not wait then return end
  local started, ended = job.ended.due + wait, time - job.rules.finished_retention
  if consumer == '' then consumer = '!' end
  local history = { entries = {} }
  for name, value in pairs(NO_HOLD) do history[name] = value end
  save('history', id, with_entry(id, history, job.ended.count, started, ended, 'f', consumer))
end
