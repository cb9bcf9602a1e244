package hardware

import "github.com/bobnet-go/bobnet/transport/myrinet"

// CableStats counts the frames at one end of a live cable; PortStats counts the packets. Every
// received frame that is not forwarded is in one of the counters from FramesLost on, except credits
// and greetings.
type CableStats struct {
	FramesIn, FramesOut uint64 // of all kinds
	Hellos              uint64 // greetings from the neighbour
	Sessions            uint64 `metric:"bobnet_switch_sessions_total" help:"Sessions established with the other end of the cable."`
	Starved             uint64 // times that a frame had to wait for credit
	Full                uint64 // times that the link had no room for a frame

	FramesLost uint64 `metric:"bobnet_switch_lost_frames_total" help:"Frames lost on the cable."`
	Orphans    uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: parts of packets whose beginning was lost or dropped
	Twice      uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: duplicates, and frames that were already given up
	NoRoom     uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: beyond the neighbour's credit
	Malformed  uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: not a frame of the fabric, or with impossible values
	Stale      uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: of an earlier incarnation
	Strangers  uint64 `metric:"bobnet_switch_refused_frames_total"` // dropped: from a station that is not the neighbour

	TooLong uint64 `metric:"bobnet_switch_dropped_packets_total"` // packets dropped: longer than LiveOptions.MaxPacket
}

// LivePort is a snapshot of one end of a live cable: a card's, or a port of a live switch.
type LivePort struct {
	Port      int    // of the switch; 0 for a card
	Interface string // interface of the cable; "" if no cable is plugged in
	Driver    string
	Up        bool   `metric:"bobnet_switch_port_up" help:"1 if the other end of the cable is present."`
	Neighbor  string // its address: MAC and port; "" if unknown
	MaxPacket int    // longest packet in bytes
	Part      int    // bytes of a packet in a frame to the neighbour
	Slots     int    // size of the input buffer in frames
	Buffered  int    `metric:"bobnet_switch_buffered_frames" help:"Frames in the input buffer."`
	Credit    int    `metric:"bobnet_switch_credit_frames" help:"Frames that the credit allows to send now."`
	BlockedAt int64  // when the packet at the head began to wait, by the link's clock; 0 if it does not wait
	Packets   myrinet.PortStats
	Frames    CableStats
}
