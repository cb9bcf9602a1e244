// Package rpcgen generates Go code from a specification in RPC language: XDR's (RFC 4506 section 6)
// with the programs of ONC RPC (RFC 5531 section 12). It implements the command `bobnet rpcgen`.
// The generated code uses the packages vmmc/xdr and vmmc/vrpc.
//
// # Language
//
// Both RFCs are supported in full, with the extensions of the C rpcgen:
//
//	definition                                   source                  Go
//	const NAME = 10; 0xa; 012                    RFC 4506 section 4.17   an untyped constant
//	const NAME = "text";                         rpcgen                  the same
//	enum name { A = 1, B = 2 };                  4.3                     a type of int32, its constants, String
//	enum name { A, B, };                         rpcgen                  numbers count from 0, or from the one before
//	struct name { ... };                         4.14                    a struct
//	union name switch (T tag) { ... };           4.15                    a struct of tag and arms
//	typedef T name;                              4.18                    a defined type, or an alias
//	typedef struct { ... } name;                 6.3                     a struct
//	program NAME { version ... } = n;            RFC 5531 section 12     see below
//
//	declaration, T a type                        section                 Go
//	int x; unsigned int x; unsigned x            4.1, 4.2                int32, uint32
//	hyper x; unsigned hyper x                    4.5                     int64, uint64
//	float x; double x; quadruple x               4.6, 4.7, 4.8           float32, float64, xdr.Quadruple
//	bool x                                       4.4                     bool
//	char, short, long, each also unsigned        rpcgen                  int8, int16, int32 and so on, in 4 bytes
//	u_int, u_long, int64_t, uint8_t, quad_t ...  rpcgen's libraries      the same
//	opaque x[n]; opaque x<n>; opaque x<>         4.9, 4.10               [n]byte, []byte
//	string x<n>; string x<>                      4.11                    string
//	T x[n]; T x<n>; T x<>                        4.12, 4.13              [n]T, []T
//	T *x                                         4.19                    *T
//	struct { ... } x; also enum, union           6.3                     a type of its own
//	struct name x; also enum, union              rpcgen                  the type of that name
//
// Definitions may be in any order. Constants and the names of enumerations serve as lengths,
// bounds, values and cases; TRUE and FALSE are 1 and 0; a case may be a character ('a').
//
// The checker enforces the rules of section 6.4 of RFC 4506 and section 12.3 of RFC 5531 that the
// grammar does not express. Names are declared, once. Lengths and numbers are in their ranges. The
// discriminant of a union is an int, unsigned int, bool or enumeration (or a shorter integer), and
// each of its cases is a possible value, at most once. Versions and procedures have names and
// numbers of their own. As in C, two names of an enumeration may have one number, two programs may
// have one number if their versions differ, an arm may be named like its discriminant, and a
// constant or typedef may be repeated identically. A type may contain itself only through optional
// data, a counted array, or an arm of a union that has another arm without it (RFC 4506 section
// 4.19).
//
// Other types and constants of C's headers than those above are unknown. The command's option -D
// defines them: -D time_t=int, -D MAXPATHLEN=1024. So does a typedef between #ifdef RPC_GO and
// #endif.
//
// # The preprocessor
//
// The C rpcgen runs the C preprocessor over its input. This package does the same work itself, so
// it needs no C compiler. It supports #define without parameters, #undef, #include, #if, #ifdef,
// #ifndef, #elif, #else, #endif and #error. It ignores #pragma and #ident. Line markers (# 12
// "file.x") set the positions in errors. A macro with parameters is an error. RPC_GO and RPC_HDR
// are defined, because the types and constants correspond to rpcgen's header. RPC_XDR, RPC_CLNT,
// RPC_SVC and RPC_TBL are not defined.
//
// A line that begins with a percent sign is copied to the output unchanged. In a file for both
// languages such lines are C, so this package copies a line only if a condition around it names
// RPC_GO:
//
//	#ifdef RPC_GO
//	%var ErrGone = errors.New("gone")
//	#else
//	%#include "errors.h"
//	#endif
//
// Comments are C's, and // to the end of a line. A comment that ends in the line before a
// definition, member, arm, version or procedure becomes part of its Go comment.
//
// # Names
//
// A name is split at its underscores, and each part begins with a capital. If the name has no
// lower-case letter, the rest of each part becomes lower case: read_args, ReadArgs and READ_ARGS
// are all ReadArgs, fileID becomes FileID. A name that would begin with a digit, or be empty, gets
// the prefix X. The name of a type that is declared within another consists of the outer type and
// the member: OuterInner is struct { ... } inner in struct outer. The name of the elements of an
// array that a typedef declares ends in Elem.
//
// A name that already exists gets underscores behind it until it is new. Types are named first, in
// the order of the file, then constants, names of enumerations, programs and versions, and last the
// names derived from those. The members of a struct are a scope of their own, which includes the
// names of its methods; so are the procedures of a version. Exported names cannot collide with Go's
// keywords. A parameter that would be a keyword, or a name that Go declares itself, gets an
// underscore, too.
//
// # Types
//
// Pointers to the types have the methods MarshalXDR and UnmarshalXDR of package xdr. The methods
// check the bounds of the specification in both directions. Two kinds of typedef are aliases and
// have no methods of their own: another name of a type (typedef a b), and optional data (typedef a
// *b), because Go allows no methods on pointer types.
//
// A union is a struct of the discriminant and a field for each arm. Only the selected field is
// used. If an arm is a struct, a union, an array of a fixed length or a quadruple, its field is a
// pointer, so that a union is not as large as all its arms together. That pointer must not be nil
// if the discriminant selects it (xdr.ErrNil).
//
// Decoding replaces the whole value and reuses the memory of the old one, as package xdr does. A
// struct whose last member is optional data of its own type is a linked list. A loop codes it, and
// it may have any length (xdr.EncodeList). A union that contains itself through an arm is coded
// recursively. Each such arm is a level of depth, and xdr.Decoder.MaxDepth limits the depth to
// 1,024 by default.
//
// # Programs
//
// A version FILE_V1 of program FILE_PROG with a procedure READ becomes
//
//	const FileProg, FileV1, FileV1Read   the numbers
//	type FileV1Server interface          a method for each procedure, but for void NULL(void) = 0
//	func FileV1Program(s FileV1Server)   the entry for vrpc.Server.Register
//	type FileV1Client struct             a method for each procedure, over a vrpc.Client
//	func NewFileV1Client(t, cfg)         a client over a transport
//
// A method has the procedure's arguments as parameters, after a context at the client and a
// *vrpc.Call at the server. There may be several arguments, which are encoded one after the other,
// as rpcgen -N does; they may have names. Structs, unions, arrays of a fixed length and quadruples
// are passed by pointer. Such a result is decoded into the caller's memory:
//
//	read_result READ(read_args) = 1;   Read(ctx, arg *ReadArgs, res *ReadResult) error
//	int ADD(int a, int b) = 2;         Add(ctx, a int32, b int32) (int32, error)
//	string NAME(void) = 3;             Name(ctx) (string, error)
//
// A procedure 0 without arguments and results is not part of the interface: package vrpc answers
// it, as the C rpcgen's servers do. A call allocates only memory for strings and counted arrays.
//
// # Errors
//
// Generate goes on after an error, and returns all of them as an ErrorList, at most one for each
// line. Each shows file, line, column and the line itself.
package rpcgen
