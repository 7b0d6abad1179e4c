const OPERATORS_ROWS = 8u;
// Invocations that share a row.
const OPERATORS_LANES = EW_THREADS / OPERATORS_ROWS;

fn operators_spread() {
  let first = ew_lo();
  let n = ew_hi();
  let left = min((n / 2u + OPERATORS_ROWS - 1u) / OPERATORS_ROWS * OPERATORS_ROWS, n);
  for (var i = 0u; i < 2u; i += 1u) {
    let begin = select(first + left, first, i == 0u);
    let count = select(n - left, left, i == 0u);
    if count == 0u { continue; }
    ew_spawn(select(FN_operators_spread, FN_operators_bias_relu, count <= OPERATORS_ROWS), 0u, begin, count);
  }
}

fn operators_number(at: u32) -> f32 { return bitcast<f32>(ew_load(at)); }

fn operators_bias_relu() {
  if ew_thread == 0u { ew_spawn(FN_operators_softmax, 0u, ew_lo(), ew_hi()); }
  let row = ew_thread / OPERATORS_LANES;
  if row >= ew_hi() { return; }
  let columns = ew_param(DevOperators_columns);
  let start = (ew_lo() + row) * columns;
  let input = ew_pointer(DevOperators_input) + start;
  let bias = ew_pointer(DevOperators_bias);
  let middle = ew_pointer(DevOperators_middle) + start;
  for (var i = ew_thread % OPERATORS_LANES; i < columns; i += OPERATORS_LANES) {
    ew_store(middle + i, bitcast<u32>(max(operators_number(input + i) + operators_number(bias + i), 0.0)));
  }
}

// Each invocation of a row computes the whole row's maximum and sum for itself: that needs no exchange between them.
fn operators_softmax() {
  let row = ew_thread / OPERATORS_LANES;
  if row >= ew_hi() { return; }
  let columns = ew_param(DevOperators_columns);
  let start = (ew_lo() + row) * columns;
  let middle = ew_pointer(DevOperators_middle) + start;
  let output = ew_pointer(DevOperators_output) + start;
  var most = operators_number(middle);
  for (var i = 1u; i < columns; i += 1u) { most = max(most, operators_number(middle + i)); }
  var sum = 0.0;
  for (var i = 0u; i < columns; i += 1u) { sum += exp(operators_number(middle + i) - most); }
  for (var i = ew_thread % OPERATORS_LANES; i < columns; i += OPERATORS_LANES) {
    ew_store(output + i, bitcast<u32>(exp(operators_number(middle + i) - most) / sum));
  }
}
