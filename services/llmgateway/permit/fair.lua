-- Dividing what is scarce: first among tenants, then each tenant's part among the replicas where its calls are.

-- Gives everybody what it wants as far as an equal part allows: who wants less than that gets it whole, and the others share
-- the rest equally. Each element has 'id' and 'want', and gets 'got'.
local function fill(list, amount)
  table.sort(list, function(a, b)
    if a.want ~= b.want then return a.want < b.want end
    return a.id < b.id
  end)
  local rest, left = amount, #list
  for _, one in ipairs(list) do
    one.got = math.min(one.want, rest / left)
    rest, left = rest - one.got, left - 1
  end
end

-- Makes whole numbers of the parts. What does not divide goes round among those who would get a fraction.
local function whole(parts, now)
  local left, fractions = 0, {}
  for id, part in pairs(parts) do
    local down = math.floor(part + 1e-6)
    left, parts[id] = left + part - down, down
    if part - down > 1e-6 then fractions[#fractions + 1] = id end
  end
  table.sort(fractions)
  local turn = math.floor(now / 200)
  for i, id in ipairs(fractions) do
    if (i + turn) % #fractions < math.floor(left + 1e-6) then parts[id] = parts[id] + 1 end
  end
end

-- Returns the part of the amount that a replica has in a class. Each replica has 'id' and 'd', its flows: {c = class,
-- t = tenant, n = calls in flight and in line}.
local function portion(class, amount, replicas, me, now)
  local by_tenant, tenants = {}, {}
  for _, replica in ipairs(replicas) do
    for _, flow in ipairs(replica.d) do
      if flow.c == class then
        local tenant = by_tenant[flow.t]
        if not tenant then
          tenant = {id = flow.t, want = 0, flows = {}}
          by_tenant[flow.t], tenants[#tenants + 1] = tenant, tenant
        end
        tenant.want = tenant.want + flow.n
        tenant.flows[#tenant.flows + 1] = {id = replica.id, want = flow.n}
      end
    end
  end
  fill(tenants, amount)
  local parts = {}
  for _, tenant in ipairs(tenants) do
    fill(tenant.flows, tenant.got)
    for _, flow in ipairs(tenant.flows) do parts[flow.id] = (parts[flow.id] or 0) + flow.got end
  end
  whole(parts, now)
  return parts[me] or 0
end
