package framing

import "crypto/subtle"

// The check byte of a packet of the emulated fabric is a CRC-8 with the polynomial x^8 + x^2 + x +
// 1, initial value 0, most significant bit first, as on Myrinet links. It is the last byte of the
// packet. The CRC over the packet and its check byte is 0.

// crc8Poly is the polynomial without x^8.
const crc8Poly = 0x07

// crc8Order is the order of x modulo the polynomial: x^127 is 1. After that many bit steps a
// register has its old value.
const crc8Order = 127

// crc8Stride is the number of bytes that stepCRC8 processes in one step. The table look-ups of a
// step are independent of each other, whereas a byte-wise loop waits for each look-up.
const crc8Stride = 8

// crc8Table[k] holds the CRC of each byte value followed by k zero bytes. crc8Powers holds the
// powers of x.
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

// Advancing the register by crc8Round bytes changes nothing: 8 times crc8Order bit steps. So blocks
// whose length is a multiple of crc8Round bytes can be added (XOR), and the sum has the CRC of the
// whole. Adding is several times faster than looking up.
const (
	crc8Round = crc8Order
	crc8Wide  = 8 * crc8Round
)

// UpdateCRC8 returns the CRC-8 of some data followed by data; crc is the CRC-8 of the former, 0 if
// there is none.
func UpdateCRC8(crc uint8, data []byte) uint8 {
	if len(data) < 2*crc8Round {
		return stepCRC8(crc, data)
	}
	return longCRC8(crc, data)
}

// longCRC8 implements UpdateCRC8 by adding blocks.
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

// addCRC8 fills sum, which must be zero, with a block that has the same CRC as data preceded by
// crc.
func addCRC8(crc uint8, sum, data []byte) {
	part := len(data) % len(sum)
	sum[0] = UpdateCRC8(crc, data[:part])
	for data = data[part:]; len(data) > 0; data = data[len(sum):] {
		subtle.XORBytes(sum, sum, data[:len(sum)])
	}
}

// stepCRC8 implements UpdateCRC8 by table look-ups.
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

// StripCRC8 returns the CRC-8 of a packet without its first byte. crc is the CRC-8 of the whole
// packet, and rest the number of bytes that the CRC covers after the first. It reads nothing else
// of the packet: a CRC that was wrong stays wrong by the same bits.
func StripCRC8(crc, first uint8, rest int) uint8 {
	power := crc8Powers[(8*(rest%crc8Order)+8)%crc8Order]
	var product uint8
	for bit := 7; bit >= 0; bit-- {
		product = crc8Times(product, 1) ^ power&-(first>>bit&1)
	}
	return crc ^ product
}
