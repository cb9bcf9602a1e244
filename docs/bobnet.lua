-- Wireshark dissector for Bobnet frames, by EtherType 0x88b5, for those of the
-- emulated fabric, 0x88b6, and for both in the UDP datagrams of package
-- transport/udp:
--
--   wireshark -X lua_script:docs/bobnet.lua FILE
--
-- The headers are described in package ethertype. The tables are checked
-- against it by a test: go test ./transport/pcap -run Dissector.

-- begin kinds
local kinds = {
  [0] = "invalid",
  [1] = "data",
  [2] = "rdma-write",
  [3] = "ack",
  [4] = "request",
  [5] = "accept",
  [6] = "reject",
  [7] = "probe",
  [8] = "probe-ack",
  [9] = "disconnect",
  [10] = "reset",
  [11] = "query",
  [12] = "answer",
  [13] = "echo",
  [14] = "echo-reply",
  [15] = "rdma-read",
  [16] = "read-data",
  [17] = "retry",
  [18] = "piece",
  [19] = "trial",
}
-- end kinds

-- begin flags
local flags = {
  { 0x1, "last" },
  { 0x2, "immediate" },
  { 0x4, "packed" },
  { 0x8, "ack-now" },
  { 0x10, "whole-crc" },
  { 0x20, "retry" },
  { 0x40, "more" },
  { 0x100, "takes-long" },
  { 0x200, "unordered" },
}
-- end flags

-- begin fabric kinds
local fabric_kinds = {
  [128] = "packet",
  [129] = "credit",
  [130] = "break",
  [131] = "hello",
}
-- end fabric kinds

-- begin seal kinds
local seal_kinds = {
  [64] = "sealed",
  [65] = "sealed-group",
  [66] = "seal-hello",
  [67] = "seal-cookie",
  [68] = "seal-init",
  [69] = "seal-reply",
  [70] = "seal-unknown",
  [71] = "seal-refused",
  [72] = "sealed-long",
}
-- end seal kinds

local bobnet = Proto("bobnet", "Bobnet")
local f = {
  version = ProtoField.uint8("bobnet.version", "Version"),
  kind = ProtoField.uint8("bobnet.kind", "Kind", base.DEC, kinds),
  flags = ProtoField.uint16("bobnet.flags", "Flags", base.HEX),
  dstport = ProtoField.uint16("bobnet.dstport", "Destination port"),
  srcport = ProtoField.uint16("bobnet.srcport", "Source port"),
  tag = ProtoField.uint32("bobnet.tag", "Connection tag", base.HEX),
  seq = ProtoField.uint32("bobnet.seq", "Sequence number"),
  ack = ProtoField.uint32("bobnet.ack", "Acknowledged up to"),
  msg = ProtoField.uint32("bobnet.msg", "Message number"),
  sack = ProtoField.uint64("bobnet.sack", "Selectively acknowledged", base.HEX),
  token = ProtoField.uint64("bobnet.token", "Token of the sender's address", base.HEX),
  nonce = ProtoField.uint64("bobnet.nonce", "Number of the question", base.HEX),
  offset = ProtoField.uint32("bobnet.offset", "Offset in message"),
  length = ProtoField.uint32("bobnet.length", "Message length"),
  size = ProtoField.uint16("bobnet.size", "Payload size"),
  count = ProtoField.uint16("bobnet.count", "Messages in frame"),
  crc = ProtoField.uint32("bobnet.crc", "CRC32C", base.HEX),
  address = ProtoField.uint64("bobnet.rdma.address", "Remote address", base.HEX),
  handle = ProtoField.uint32("bobnet.rdma.handle", "Memory handle", base.HEX),
  immediate = ProtoField.uint32("bobnet.immediate", "Immediate data", base.HEX),
  message = ProtoField.bytes("bobnet.message", "Message"),
  payload = ProtoField.bytes("bobnet.payload", "Payload"),
}
local bits = {}
for i, flag in ipairs(flags) do
  bits[i] = ProtoField.bool("bobnet.flags." .. flag[2], flag[2], 16, nil, flag[1])
  f["bit" .. i] = bits[i]
end
bobnet.fields = f

-- Where the fields lie behind the Ethernet header, and how long they are.
local layout = {
  { f.version, 0, 1 }, { f.kind, 1, 1 }, { f.flags, 2, 2 }, { f.dstport, 4, 2 }, { f.srcport, 6, 2 },
  { f.tag, 8, 4 }, { f.seq, 12, 4 }, { f.ack, 16, 4 }, { f.msg, 20, 4 }, { f.sack, 24, 8 },
  { f.offset, 32, 4 }, { f.length, 36, 4 }, { f.size, 40, 2 }, { f.count, 42, 2 }, { f.crc, 44, 4 },
}
local header = 48

-- What the field of selective acknowledgements holds in frames that acknowledge nothing; false
-- stands for nothing.
local no_sack = {
  request = f.token, retry = f.token, query = f.nonce, answer = f.nonce,
  accept = false, reject = false, probe = false, ["probe-ack"] = false, reset = false,
  echo = false, ["echo-reply"] = false, trial = false,
}

-- The frames of the name service and echoes belong to no connection.
local unconnected = { query = true, answer = true, echo = true, ["echo-reply"] = true }

local function has(word, name)
  for _, flag in ipairs(flags) do
    if flag[2] == name then return bit.band(word, flag[1]) ~= 0 end
  end
  return false
end

-- extension adds what precedes a message's data and returns its length.
local function extension(tvb, tree, kind, word, size)
  if (kind == "rdma-write" or kind == "rdma-read") and size >= 16 then
    tree:add(f.address, tvb(header, 8))
    tree:add(f.handle, tvb(header + 8, 4))
    tree:add(f.immediate, tvb(header + 12, 4))
    return 16
  end
  if kind == "data" and has(word, "immediate") and not has(word, "packed") and size >= 4 then
    tree:add(f.immediate, tvb(header, 4))
    return 4
  end
  return 0
end

-- records adds the messages of a packed frame, each behind eight bytes of size,
-- flags and immediate data, and padded to eight.
local function records(tvb, tree, size)
  local at, last = header, header + size
  while at + 8 <= last do
    local n = tvb(at, 2):uint()
    if at + 8 + n > last then break end
    local item = tree:add(f.message, tvb(at + 8, n))
    if has(tvb(at + 2, 2):uint(), "immediate") then item:add(f.immediate, tvb(at + 4, 4)) end
    at = at + 8 + math.floor((n + 7) / 8) * 8
  end
end

-- sealed shows what can be read of a sealed frame without its key.
local function sealed(tvb, pinfo, root)
  local kind = seal_kinds[tvb(1, 1):uint()]
  local tree = root:add(bobnet, tvb())
  tree:add(f.version, tvb(0, 1))
  tree:add(f.dstport, tvb(4, 2))
  tree:add(f.srcport, tvb(6, 2))
  local text = string.format("%d > %d %s", tvb(6, 2):uint(), tvb(4, 2):uint(), kind)
  if kind == "sealed" or kind == "sealed-long" or kind == "seal-unknown" then
    text = text .. string.format(" session %#x counter %s", tvb(8, 4):uint(), tostring(tvb(12, 8):uint64()))
  end
  pinfo.cols.info = text
  tree:append_text(", " .. text)
  return tvb:len()
end

-- plain shows a frame that is not sealed, and those that follow it in the Ethernet frame.
local function plain(tvb, pinfo, root, before)
  if tvb:len() < header then return 0 end
  local size = math.min(tvb(40, 2):uint(), tvb:len() - header)
  local tree = root:add(bobnet, tvb(0, header + size))
  local number, word = tvb(1, 1):uint(), tvb(2, 2):uint()
  local kind = kinds[number] or ("kind-" .. number)
  for _, field in ipairs(layout) do
    local which = field[1]
    if which == f.sack and no_sack[kind] ~= nil then which = no_sack[kind] end
    if which then
      local item = tree:add(which, tvb(field[2], field[3]))
      if which == f.flags then
        for _, bit in ipairs(bits) do item:add(bit, tvb(2, 2)) end
      end
    end
  end
  local skip = extension(tvb, tree, kind, word, size)
  if has(word, "packed") then
    records(tvb, tree, size)
  elseif size > skip then
    tree:add(f.payload, tvb(header + skip, size - skip))
  end
  local text = string.format("%d > %d %s", tvb(6, 2):uint(), tvb(4, 2):uint(), kind)
  if not unconnected[kind] then
    text = text .. string.format(" seq %d ack %d msg %d", tvb(12, 4):uint(), tvb(16, 4):uint(), tvb(20, 4):uint())
  end
  text = text .. " size " .. size
  for _, flag in ipairs(flags) do
    if has(word, flag[2]) then text = text .. " " .. flag[2] end
  end
  tree:append_text(", " .. text)
  text = before .. text
  pinfo.cols.info = text
  local next = header + size + 14 -- behind its Ethernet header
  if has(word, "more") and tvb:len() >= next + header then
    return next + plain(tvb(next):tvb(), pinfo, root, text .. " + ")
  end
  return header + size
end

function bobnet.dissector(tvb, pinfo, root)
  if tvb:len() >= 36 and seal_kinds[tvb(1, 1):uint()] then
    pinfo.cols.protocol = "Bobnet"
    return sealed(tvb, pinfo, root)
  end
  pinfo.cols.protocol = "Bobnet"
  return plain(tvb, pinfo, root, "")
end

-- The fabric's frames: a header of the same length, and a part of a packet, of which
-- the first has the route, a byte a switch, and the type.
local fabric = Proto("bobnet_fabric", "Bobnet fabric")
local g = {
  version = ProtoField.uint8("bobnet_fabric.version", "Version"),
  kind = ProtoField.uint8("bobnet_fabric.kind", "Kind", base.DEC, fabric_kinds),
  dstport = ProtoField.uint16("bobnet_fabric.dstport", "Destination end"),
  srcport = ProtoField.uint16("bobnet_fabric.srcport", "Source end"),
  tag = ProtoField.uint32("bobnet_fabric.tag", "Incarnation", base.HEX),
  seq = ProtoField.uint32("bobnet_fabric.seq", "Frame number"),
  credit = ProtoField.uint32("bobnet_fabric.credit", "Credit up to"),
  packet = ProtoField.uint32("bobnet_fabric.packet", "Packet number"),
  offset = ProtoField.uint32("bobnet_fabric.offset", "Offset in packet"),
  length = ProtoField.uint32("bobnet_fabric.length", "Packet length"),
  size = ProtoField.uint16("bobnet_fabric.size", "Bytes in frame"),
  crc = ProtoField.uint32("bobnet_fabric.crc", "CRC32C", base.HEX),
  turn = ProtoField.int8("bobnet_fabric.turn", "Turn"),
  type = ProtoField.uint16("bobnet_fabric.type", "Packet type"),
  part = ProtoField.bytes("bobnet_fabric.part", "Part of packet"),
}
fabric.fields = g

local fabric_layout = {
  { g.version, 0, 1 }, { g.kind, 1, 1 }, { g.dstport, 4, 2 }, { g.srcport, 6, 2 }, { g.tag, 8, 4 }, { g.seq, 12, 4 },
  { g.credit, 16, 4 }, { g.packet, 20, 4 }, { g.offset, 24, 4 }, { g.length, 28, 4 }, { g.size, 32, 2 }, { g.crc, 44, 4 },
}

-- beginning adds route and type of a packet and returns the text of the route, and how
-- many bytes both have.
local function beginning(tvb, tree, size)
  local at, text = 0, ""
  while at < size and tvb(header + at, 1):uint() >= 0x80 do
    local turn = tvb(header + at, 1):uint() % 64
    if turn >= 32 then turn = turn - 64 end
    tree:add(g.turn, tvb(header + at, 1), turn)
    text = text .. string.format(" %+d", turn)
    at = at + 1
  end
  if at + 2 > size then return text, at end
  tree:add(g.type, tvb(header + at, 2))
  return text .. " type " .. tvb(header + at, 2):uint(), at + 2
end

function fabric.dissector(tvb, pinfo, root)
  if tvb:len() < header then return 0 end
  pinfo.cols.protocol = "Bobnet fabric"
  local size = math.min(tvb(32, 2):uint(), tvb:len() - header)
  local tree = root:add(fabric, tvb(0, header + size))
  for _, field in ipairs(fabric_layout) do tree:add(field[1], tvb(field[2], field[3])) end
  local number = tvb(1, 1):uint()
  local kind = fabric_kinds[number] or ("kind-" .. number)
  local text = string.format("%d > %d %s %d bytes %d of %d credit %d", tvb(6, 2):uint(), tvb(4, 2):uint(), kind,
    tvb(20, 4):uint(), size, tvb(28, 4):uint(), tvb(16, 4):uint())
  local skip = 0
  if kind == "packet" and tvb(24, 4):uint() == 0 then
    local route
    route, skip = beginning(tvb, tree, size)
    text = text .. " route" .. route
  end
  if size > skip then tree:add(g.part, tvb(header + skip, size - skip)) end
  pinfo.cols.info = text
  tree:append_text(", " .. text)
  return header + size
end

DissectorTable.get("ethertype"):add(0x88b5, bobnet)
DissectorTable.get("ethertype"):add(0x88b6, fabric)

-- A long frame, as it is on the wire, is a TCP segment between addresses of ff10::/16, whose
-- second part is the EtherType that the frame has otherwise. If the path has cut the frame, only
-- the first segment begins with our header. Wireshark's dissector of TCP gets all other segments; it would
-- take long frames for retransmissions.
local long = Proto("bobnet_long", "Bobnet long frame")
local l = {
  offset = ProtoField.uint32("bobnet_long.offset", "Offset of the segment"),
  name = ProtoField.uint32("bobnet_long.name", "CRC32C of the Bobnet header", base.HEX),
  size = ProtoField.uint16("bobnet_long.size", "Bytes of the whole frame"),
  data = ProtoField.bytes("bobnet_long.data", "Part of a long frame"),
}
long.fields = l
local tcp = Dissector.get("tcp")

function long.dissector(tvb, pinfo, root)
  local which = ({ ["88b5"] = bobnet, ["88b6"] = fabric })[tostring(pinfo.net_dst):match("^ff10:(%x+):")]
  if which == nil or tvb:len() < 20 then return tcp:call(tvb, pinfo, root) end
  local tree = root:add(long, tvb(0, 20))
  tree:add(l.offset, tvb(4, 4))
  tree:add(l.name, tvb(8, 4))
  tree:add(l.size, tvb(14, 2))
  local offset = tvb(4, 4):uint()
  if offset == 0 and tvb:len() >= 20 + header then
    which.dissector(tvb(20):tvb(), pinfo, root)
  elseif tvb:len() > 20 then
    tree:add(l.data, tvb(20))
    pinfo.cols.protocol = "Bobnet"
    pinfo.cols.info = string.format("part of a long frame at %d of %d", offset, tvb(14, 2):uint())
  end
  return tvb:len()
end
DissectorTable.get("ip.proto"):add(6, long)

-- A datagram of transport/udp is a whole frame, Ethernet header first.
local udp = Proto("bobnet_udp", "Bobnet in UDP")
function udp.dissector(tvb, pinfo, root)
  Dissector.get("eth_withoutfcs"):call(tvb, pinfo, root)
  return tvb:len()
end
local base_port = 61952 -- Config.BasePort
DissectorTable.get("udp.port"):add(string.format("%d-%d", base_port, base_port + 64), udp)
