package framing

import "crypto/subtle"

// The check octet of a packet of the emulated fabric is CRC-8 with the polynomial
// x^8 + x^2 + x + 1, begun at 0, most significant bit first, as the links of Myrinet
// have it. It stands behind the packet, and the CRC of a packet with it is 0.

// crc8Poly is the polynomial without x^8.
const crc8Poly = 0x07

// crc8Order is after how many steps of a bit a register comes round again: x^127 is 1
// modulo the polynomial.
const crc8Order = 127

// crc8Stride is how many octets stepCRC8 takes at a time: what it looks up for them does
// not depend on each other, as from octet to octet it would.
const crc8Stride = 8

// crc8Table[k] has the CRC of each octet that k octets of 0 follow; crc8Powers the powers
// of x.
var crc8Table, crc8Powers = crc8Tables()

func crc8Tables() (table [crc8Stride][256]uint8, powers [crc8Order]uint8) {
	for k := range table {
		for i := range table[k] {
			table[k][i] = crc8Times(uint8(i), 8*(k+1))
		}
	}
	for i := range powers {
		powers[i] = crc8Times(1, i)
	}
	return table, powers
}

// crc8Times returns r times x^n modulo the polynomial, bit by bit.
func crc8Times(r uint8, n int) uint8 {
	for range n {
		carry := r >> 7
		r = r<<1 ^ carry*crc8Poly
	}
	return r
}

// crc8Round octets behind an octet leave the register as none do: 8 steps each, and
// crc8Order of them come round. So blocks of that many octets, or of a multiple, can be
// added up, and the CRC be that of the sum. To add takes a fraction of the time.
const (
	crc8Round = crc8Order
	crc8Wide  = 8 * crc8Round
)

// UpdateCRC8 returns the CRC-8 of what crc is that of, followed by data. That of nothing
// is 0.
func UpdateCRC8(crc uint8, data []byte) uint8 {
	if len(data) < 2*crc8Round {
		return stepCRC8(crc, data)
	}
	return longCRC8(crc, data)
}

// longCRC8 is UpdateCRC8 by way of sums.
func longCRC8(crc uint8, data []byte) uint8 {
	var wide [crc8Wide]byte
	if len(data) >= 2*crc8Wide {
		addCRC8(crc, wide[:], data)
		crc, data = 0, wide[:]
	}
	var sum [crc8Round]byte
	addCRC8(crc, sum[:], data)
	return stepCRC8(0, sum[:])
}

// addCRC8 makes sum, which holds 0, a block with the CRC that data has behind crc.
func addCRC8(crc uint8, sum, data []byte) {
	part := len(data) % len(sum)
	sum[0] = UpdateCRC8(crc, data[:part])
	for data = data[part:]; len(data) > 0; data = data[len(sum):] {
		subtle.XORBytes(sum, sum, data[:len(sum)])
	}
}

// stepCRC8 is UpdateCRC8 by tables.
func stepCRC8(crc uint8, data []byte) uint8 {
	t := &crc8Table
	for ; len(data) >= crc8Stride; data = data[crc8Stride:] {
		b := data[:crc8Stride:crc8Stride]
		crc = t[7][crc^b[0]] ^ t[6][b[1]] ^ t[5][b[2]] ^ t[4][b[3]] ^ t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
	}
	for _, b := range data {
		crc = t[0][crc^b]
	}
	return crc
}

// StripCRC8 returns the CRC-8 of a packet without its first octet, which rest octets
// follow that the CRC covers, from that of the packet with it. It looks at nothing else
// of the packet: a CRC that was wrong is wrong afterwards, by the same bits.
func StripCRC8(crc, first uint8, rest int) uint8 {
	power := crc8Powers[(8*(rest%crc8Order)+8)%crc8Order]
	var product uint8
	for bit := 7; bit >= 0; bit-- {
		product = crc8Times(product, 1) ^ power&-(first>>bit&1)
	}
	return crc ^ product
}
