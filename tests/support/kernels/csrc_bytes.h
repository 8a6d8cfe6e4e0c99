// What a GPU's instructions on the bytes of a word do.
static inline u32 select_bytes(u32 a, u32 b, u32 selector) {
    const u64 both = (u64)b << 32 | a;
    u32 found = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 nibble = selector >> (4 * i) & 15;
        const u32 byte = (u32)(both >> (8 * (nibble & 7))) & 0xff;
        found |= (nibble < 8 ? byte : byte >> 7 ? 0xff : 0) << (8 * i);
    }
    return found;
}

static inline i32 dot_bytes(u32 of_signed, u32 of_unsigned) {
    i32 sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (i32)(signed char)(of_signed >> i) * (i32)(of_unsigned >> i & 0xff);
    return sum;
}

static inline u64 shift_left(u64 word, u32 bits) {
    return bits < 64 ? word << bits : 0;
}

static inline u32 shift_right(u32 word, u32 bits) {
    return bits < 32 ? word >> bits : 0;
}

static inline i32 highest_bit(u32 word) {
    return word ? 31 - __builtin_clz(word) : -1;
}

template <i32 MASK>
static inline i32 highest_bit_masked(u32 word) {
    return highest_bit(word) & MASK;
}

static inline bool has_least_of_16(u32 low, u32 high) {
    return (u16)low == 0x8000 || low >> 16 == 0x8000 || (u16)high == 0x8000 || high >> 16 == 0x8000;
}

template <class T>
static inline T kept(T value) {
    return value;
}

template <class T>
static inline T uniform(T value) {
    return value;
}
