-- Policies (job/policy.rs): the few values that scripts act on. Scripts copy all other fields unread.

-- The values of a policy without any field. Mirrored in job/policy.rs.
local DEFAULT_POLICY = {
  ttr = 60000, max_attempts = 20, retention = 1209600000, finished_retention = 0, backoff = '-',
  priority = STANDARD_PRIORITY
}

local function policy_number(policy, name, default)
  local value = string.match(policy, ';' .. name .. '=([^;]*)')
  if not value then return default end
  return number(value)
end

local UNITS = { s = 1000, m = 60000, h = 3600000, d = 86400000 }

-- The value of a field in milliseconds; in the record, it may have a larger unit.
local function policy_time(policy, name, default)
  local digits, unit = string.match(string.match(policy, ';' .. name .. '=([^;]*)') or '', '^(%d+)([smhd])$')
  if not digits then return policy_number(policy, name, default) end
  return number(digits) and number(digits) * UNITS[unit]
end

-- Parses a policy; returns nil if it is damaged.
local function parse_policy(text)
  if text == '' then return DEFAULT_POLICY end
  local policy = ';' .. text
  local parsed = {
    ttr = policy_number(policy, 't', DEFAULT_POLICY.ttr),
    max_attempts = policy_number(policy, 'm', DEFAULT_POLICY.max_attempts),
    retention = policy_number(policy, 'd', DEFAULT_POLICY.retention),
    finished_retention = policy_time(policy, 'f', DEFAULT_POLICY.finished_retention),
    backoff = string.match(policy, ';b=([^;]*)') or DEFAULT_POLICY.backoff,
    priority = policy_number(policy, 'r', DEFAULT_POLICY.priority),
    expires_after = policy_number(policy, 'x'),
    expires_at = policy_number(policy, 'e'),
    dead_to = string.match(policy, ';g=([^;]*)')
  }
  return parsed.ttr and parsed.max_attempts and parsed.retention and parsed.finished_retention and
    parsed.priority and parsed
end

-- The policy with these fields (PolicyFields::text) set; a field with an empty value is removed.
local function change_policy(text, fields)
  local changed = text == '' and '' or ';' .. text
  for name, value in string.gmatch(fields, '(%w+)=([^;]*)') do
    changed = string.gsub(changed, ';' .. name .. '=[^;]*', '')
    if value ~= '' then changed = changed .. ';' .. name .. '=' .. value end
  end
  return string.sub(changed, 2)
end

-- The policy text with the time at which the job expires, counted from this due time; unchanged if it never does.
local function expire_from(text, due)
  local after = policy_number(';' .. text, 'x')
  return after and change_policy(text, string.format('e=%d', due + after)) or text
end

-- The wait after an attempt in ms, the same as Backoff::delay in job/backoff.rs; nil if the text is not a backoff.
local function backoff_delay(backoff, attempt, id)
  if backoff == '-' then return 0 end
  local values = string.match(backoff, '^list:([%d,]+)$')
  if values then
    local n, wait = 0, nil
    for value in string.gmatch(values, '%d+') do
      n, wait = n + 1, number(value)
      if n == attempt then break end
    end
    return wait
  end
  local initial, factor, max, jitter = string.match(backoff, '^exp:(%d+):([%d.]+):(%d+):(-?[%d.]+)$')
  -- Factor and jitter have enough digits to identify their doubles.
  initial, factor, max, jitter = number(initial), tonumber(factor), number(max), tonumber(jitter)
  if not (initial and factor and max and jitter) then return nil end
  local wait = math.min(initial * math.pow(factor, attempt - 1), max)
  local hash = 7
  for i = 1, #id do hash = (hash * 31 + string.byte(id, i)) % 65521 end
  local position = ((hash + attempt * 7919) % 65521) / 65521
  local delay = math.floor(math.min(wait * (1 - jitter + 2 * jitter * position), max))
  return delay >= 0 and delay <= max and delay or nil
end
