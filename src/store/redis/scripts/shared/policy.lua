-- Policies (job/policy.rs): the few values that scripts act on. Scripts copy all other fields unread.

-- The values of a policy without any field. Mirrored in job/policy.rs.
local DEFAULT_POLICY = {
  retention = 1209600000, finished_retention = 0, priority = STANDARD_PRIORITY
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
    retention = policy_number(policy, 'd', DEFAULT_POLICY.retention),
    finished_retention = policy_time(policy, 'f', DEFAULT_POLICY.finished_retention),
    priority = policy_number(policy, 'r', DEFAULT_POLICY.priority),
    expires_after = policy_number(policy, 'x'),
    expires_at = policy_number(policy, 'e')
  }
  return parsed.retention and parsed.finished_retention and parsed.priority and parsed
end
