// Package xdr encodes and decodes External Data Representation (RFC 4506). ONC RPC (RFC 5531) uses
// this format for arguments and results.
//
// An Encoder appends items to a slice of the caller. A Decoder reads items from a message. Neither
// inspects types at run time: the program, or generated code, calls one method for each item, in
// the order of the declaration. The section numbers are those of RFC 4506.
//
//	XDR                       section  Encoder             Decoder              Go
//	int                           4.1  Int                 Int                  int32
//	unsigned int                  4.2  Uint                Uint                 uint32
//	enum                          4.3  Enum                Enum                 int32
//	bool                          4.4  Bool                Bool                 bool
//	hyper                         4.5  Hyper               Hyper                int64
//	unsigned hyper                4.5  Uhyper              Uhyper               uint64
//	float                         4.6  Float               Float                float32
//	double                        4.7  Double              Double               float64
//	quadruple                     4.8  Quadruple           Quadruple            Quadruple
//	opaque x[n]                   4.9  FixedOpaque         FixedOpaque, -View   []byte
//	opaque x<m>                  4.10  Opaque              Opaque, -View        []byte
//	string x<m>                  4.11  String              String, -View        string
//	T x[n]                       4.12  EncodeFixedArray    DecodeFixedArray     []T
//	T x<m>                       4.13  EncodeArray         DecodeArray          []T
//	struct                       4.14  its members, in order
//	union                        4.15  its discriminant, then the arm; NoArm if there is none
//	void                         4.16  nothing; the type Void if a value is required
//	T *x                         4.19  EncodeOptional      DecodeOptional       *T
//	a linked list                4.19  EncodeList          DecodeList           *T
//
// A type that encodes and decodes itself has the methods of Marshaler and Unmarshaler. The
// functions for arrays and optional data accept such a method as a function, for example
// (*Entry).UnmarshalXDR.
//
// # Errors
//
// Errors are sticky: after the first error an Encoder appends nothing more, and a Decoder returns
// zero values and reads nothing more. So a caller checks Err once, at the end. The error is an
// *Error with the item, its byte offset, the value found and the limit. errors.Is finds its kind:
// ErrShort, ErrTooLong, ErrValue, ErrDepth, ErrNil, ErrCycle. After an error the contents of the
// decoded values are unspecified.
//
// # Bounds
//
// Unbounded is the bound of a declaration without one, which means 2^32-1. Both Encoder and Decoder enforce bounds.
//
// A Decoder does not trust lengths. Opaque data and strings must lie in the message before the Decoder allocates
// memory for them. The message must be able to hold all elements of an array: each needs at least the bytes of its
// type, and bytes that the elements of an enclosing array still need do not count. So the memory that a message can
// make the Decoder allocate is proportional to the message's length, however its lengths are nested. The factor is
// that of the type: the size of a Go value to the smallest encoding of it.
//
// Recursive types contain themselves through optional data, variable-length arrays or arms of unions. Each of these
// counts as one level of depth while its content is encoded or decoded (for arms by Enter and Leave). More than
// MaxDepth levels, or 1024 if that is 0, are ErrDepth. This also ends the encoding of a Go structure that contains
// itself. A linked list would need a level for each element, so EncodeList and DecodeList use a loop instead. A
// program can also decode a list into a slice, because the mark before optional data is a bool:
//
//	for d.Bool() {
//		var entry Entry
//		entry.UnmarshalXDR(&d) // all but the link
//		list = append(list, entry)
//	}
//
// # Strictness
//
// An item occupies a multiple of four bytes (section 3). Opaque data and strings of another length
// are followed by one to three residual bytes of zero (sections 4.9, 4.10 and 4.11; section 3.9 of
// RFC 1832). An Encoder writes zeros, and a Decoder rejects other values. A Decoder also rejects a
// bool other than 0 and 1. So each value has one encoding, and an Encoder reproduces byte for byte
// what a Decoder accepts. Floating-point values keep their bits, including those of NaNs.
//
// Strings are sequences of bytes here: the RFC calls them ASCII, programs send UTF-8, and neither
// is checked. A C peer ends a string at a zero byte.
//
// # Memory
//
// An Encoder allocates only if the capacity of the caller's slice is too small. A Decoder allocates
// for strings, and for opaque data, arrays and optional data if the caller passes no memory to
// reuse. Views (OpaqueView, FixedOpaqueView, StringView) lie in the message and are valid while it
// is. Decoder.InPlace makes Opaque return views, too, so that code that was written to copy works
// without copies.
//
// No type is safe for concurrent use. The zero Encoder encodes into new memory, and the zero
// Decoder decodes an empty message. Reset replaces the slice or the message.
package xdr
