package xdr

// Marshaler is a type that encodes itself. Errors stay in the Encoder.
type Marshaler interface {
	MarshalXDR(e *Encoder)
}

// Unmarshaler is a type that decodes itself, replacing its whole value. Errors stay in
// the Decoder.
type Unmarshaler interface {
	UnmarshalXDR(d *Decoder)
}

// Append appends the encoding of v to buf, with the limits of a zero Encoder. After an
// error it returns buf as it was.
func Append(buf []byte, v Marshaler) ([]byte, error) {
	var e Encoder
	e.Reset(buf)
	v.MarshalXDR(&e)
	if e.err != nil {
		return buf, e.err
	}
	return e.buf, nil
}

// Unmarshal decodes msg into v, with the limits of a zero Decoder. Octets after the value
// are ErrTrailing.
func Unmarshal(msg []byte, v Unmarshaler) error {
	var d Decoder
	d.Reset(msg)
	v.UnmarshalXDR(&d)
	return d.End()
}

// Void is the type of no data (section 4.16), for the argument or result of a procedure
// that has none.
type Void struct{}

// MarshalXDR encodes nothing.
func (Void) MarshalXDR(*Encoder) {}

// UnmarshalXDR decodes nothing.
func (Void) UnmarshalXDR(*Decoder) {}
